//! `--only STEP`, `--skip STEP`, `--list`.

use super::steps::Step;
use crate::failure::{Failure, Result};

#[derive(Debug, Default)]
pub(super) struct Options {
    only: Vec<String>,
    skip: Vec<String>,
    pub(super) list: bool,
}

impl Options {
    pub(super) fn parse(args: &[String], steps: &[Step]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            // Both `--only STEP` and `--only=STEP`.
            let (flag, inline) = arg.split_once('=').map_or((arg.as_str(), None), |(flag, value)| (flag, Some(value)));
            let list = match flag {
                "--list" => {
                    options.list = true;
                    continue;
                }
                "--only" => &mut options.only,
                "--skip" => &mut options.skip,
                _ => return Err(Failure::new(format!("test knows --only STEP, --skip STEP and --list, not `{arg}`"))),
            };
            let value = inline.or_else(|| args.next().map(String::as_str));
            list.push(known(value.unwrap_or_default(), steps)?);
        }
        Ok(options)
    }

    pub(super) fn takes(&self, step: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == step);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

fn known(name: &str, steps: &[Step]) -> Result<String> {
    if steps.iter().any(|step| step.name == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    Err(Failure::new(format!("there is no step `{name}`; the steps are {}", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::super::steps;
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Options::parse(&args, &steps::all())
    }

    #[test]
    fn only_and_skip_choose_steps() {
        let options = parse(&["--only", "fmt", "--only=tidy", "--skip", "tidy"]).unwrap();
        assert!(options.takes("fmt"));
        assert!(!options.takes("tidy"));
        assert!(!options.takes("build"));
        assert!(parse(&[]).unwrap().takes("build"));
    }

    #[test]
    fn a_misspelt_step_is_refused_with_the_real_names() {
        let message = parse(&["--only", "tets"]).unwrap_err().to_string();
        assert!(message.contains("no step `tets`") && message.contains("clippy"), "{message}");
        assert!(parse(&["--only"]).is_err());
        assert!(parse(&["--fast"]).is_err());
    }
}
