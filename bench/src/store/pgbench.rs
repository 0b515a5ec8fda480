//! The same two statements, sent by pgbench.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use bytes::Bytes;

use crate::scratch::scratch;

const FIRST: &str = include_str!("../../../crates/hapax-postgres/src/sql/first.sql");
const NEXT: &str = include_str!("../../../crates/hapax-postgres/src/sql/next.sql");

/// A script for one schema.
pub(super) struct Script {
    path: PathBuf,
    begin: String,
    complete: String,
}

impl Script {
    pub(super) fn write(schema: &str, sizes: &[Bytes; 2]) -> Result<Self, String> {
        let first = statement(FIRST, schema, ":begin");
        let next = statement(NEXT, schema, ":complete");
        let text = format!("\\set n random(1, 9223372036854775806)\n{first}\n\\gset\n{next};\n");
        let place = scratch("pgbench");
        fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let path = place.join(format!("{schema}.sql"));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, begin: hex(&sizes[0]), complete: hex(&sizes[1]) })
    }

    /// Pairs a second.
    pub(super) fn run(&self, url: &str, clients: usize, turn: Duration) -> Result<f64, String> {
        let mut command = Command::new(hapax_testkit::postgres_program("pgbench"));
        command.args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string()]);
        command.args(["-T", &turn.as_secs_f64().ceil().to_string(), "-f"]).arg(&self.path);
        command.args(["-D", &format!("begin={}", self.begin), "-D", &format!("complete={}", self.complete)]).arg(url);
        let output = command.output().map_err(|error| format!("pgbench: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.ok_or_else(|| format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// With pgbench's variables in place of parameters, and names for what `\gset` takes up.
fn statement(sql: &str, schema: &str, record: &str) -> String {
    let sql: String = sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let mut sql = sql.replace("$$", schema).replace(
        "SELECT true, w.version, w.stamp, NULL::bytea, t.us / 1000,",
        "SELECT true AS done, w.version AS version, w.stamp AS stamp, NULL::bytea AS record, t.us / 1000 AS now,",
    );
    sql = sql.replace("::text END\n", "::text END AS told\n");
    let id = "decode(lpad(to_hex(:n::bigint), 64, '0'), 'hex')";
    let record = format!("{record}::bytea");
    // From the last on, so that $1 is not found in $15.
    let values = [
        ("$15", ":version::bigint"),
        ("$14", "'bench'"),
        ("$13::bytea", "NULL::bytea"),
        ("$13", "NULL::bytea"),
        ("$12::boolean", "false"),
        ("$12", "false"),
        ("$11", "NULL::bigint"),
        ("$10", "NULL::bigint"),
        ("$9", "86400000::bigint"),
        ("$8", "NULL::bigint"),
        ("$7", "60000::bigint"),
        ("$6", "NULL::bigint"),
        ("$5::boolean", "false"),
        ("$5", "false"),
        ("$4::bytea", TENANT),
        ("$4", TENANT),
        ("$3::bytea", SURFACE),
        ("$3", SURFACE),
        ("$2::bytea", &record),
        ("$2", &record),
        ("$1::bytea", id),
        ("$1", id),
    ];
    for (parameter, value) in values {
        sql = sql.replace(parameter, value);
    }
    sql
}

const TENANT: &str = "'\\x0102030405060708090a0b0c0d0e0f10'::bytea";
const SURFACE: &str = "'\\x1112131415161718191a1b1c1d1e1f20'::bytea";

fn hex(bytes: &Bytes) -> String {
    bytes.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
