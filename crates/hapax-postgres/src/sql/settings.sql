SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       current_setting('synchronous_standby_names'), pg_is_in_recovery(),
       current_setting('transaction_read_only'), (SELECT count(*) FROM pg_stat_replication),
       current_setting('server_version_num')::int
