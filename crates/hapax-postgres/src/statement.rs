/// Every statement there is; each is prepared once for each connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sql {
    Get,
    First,
    Next,
    Mark,
    Feed,
    FeedState,
    Clean,
    Usage,
    ScanLease,
    ScanExpiry,
    ScanDoubt,
    ScanAge,
    ScanList,
    PutBody,
    GetBody,
    DropBody,
    ListBodies,
}

pub(crate) const COUNT: usize = 17;

/// The tables of the first version and what came to them, `$$` standing for the schema.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("sql/1.sql"), include_str!("sql/2.sql")];
pub(crate) const SETTINGS: &str = include_str!("sql/settings.sql");

impl Sql {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Get => include_str!("sql/get.sql"),
            Self::First => include_str!("sql/first.sql"),
            Self::Next => include_str!("sql/next.sql"),
            Self::Mark => include_str!("sql/mark.sql"),
            Self::Feed => include_str!("sql/feed.sql"),
            Self::FeedState => include_str!("sql/feed_state.sql"),
            Self::Clean => include_str!("sql/clean.sql"),
            Self::Usage => include_str!("sql/usage.sql"),
            Self::ScanLease => include_str!("sql/scan_lease.sql"),
            Self::ScanExpiry => include_str!("sql/scan_expiry.sql"),
            Self::ScanDoubt => include_str!("sql/scan_doubt.sql"),
            Self::ScanAge => include_str!("sql/scan_age.sql"),
            Self::ScanList => include_str!("sql/scan_list.sql"),
            Self::PutBody => include_str!("sql/put_body.sql"),
            Self::GetBody => include_str!("sql/get_body.sql"),
            Self::DropBody => include_str!("sql/drop_body.sql"),
            Self::ListBodies => include_str!("sql/list_bodies.sql"),
        }
    }

    pub(crate) const fn place(self) -> usize {
        self as usize
    }

    /// Where to find the tables.
    pub(crate) fn within(text: &str, schema: &str) -> String {
        text.replace("$$", &quoted(schema))
    }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
