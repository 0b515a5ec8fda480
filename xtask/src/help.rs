//! `cargo xtask help`, and what no arguments print.

const TEXT: &str = "\
Commands of this repository: cargo xtask COMMAND

  test [--only STEP]… [--skip STEP]… [--list]
                              everything a change must pass; installs what it needs
  tidy                        layering, purity of the core, links, error pages, licences
  model [ARGS…]               the model checker: all histories of a small world
  canary [NAME…] [--list]     plants known bugs in a scratch copy; each must be found
  bench NAME [--seconds S] [--json]
                              ours and the peer in one run; the last line is JSON
  soak NAME [--minutes M | --seconds S]
                              the long runs of the test layers
  deny [--offline] [CHECK…]   advisories, licences and sources by cargo-deny
  profile                     records anew what releases are compiled with
  help                        this list";

pub(crate) fn print() {
    println!("{TEXT}");
}
