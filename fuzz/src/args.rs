use crate::targets::{ALL, Target};

pub(crate) const USAGE: &str = "\
usage: hapax-fuzz [--seconds N] [--seed S] [TARGET…|all]
       hapax-fuzz --list

  --seconds N   time per target (15); two targets run at once
  --seed S      what the inputs follow from (new each time, and printed)
  --list        the targets";

pub(crate) enum Ask {
    List,
    Run(Args),
}

pub(crate) struct Args {
    pub(crate) seconds: u64,
    pub(crate) seed: Option<u64>,
    pub(crate) targets: Vec<&'static Target>,
}

impl Args {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Ask, String> {
        let mut args = Self { seconds: 15, seed: None, targets: Vec::new() };
        while let Some(arg) = given.next() {
            let mut number = || {
                let value = given.next().ok_or_else(|| format!("{arg} needs a number"))?;
                value.parse::<u64>().map_err(|_| format!("{arg} needs a number, not `{value}`"))
            };
            match arg.as_str() {
                "--list" => return Ok(Ask::List),
                "--seconds" => args.seconds = number()?,
                "--seed" => args.seed = Some(number()?),
                "all" => args.targets.extend(ALL),
                name => match ALL.iter().find(|target| target.name == name) {
                    Some(target) => args.targets.push(target),
                    None => return Err(format!("there is no target `{name}`; --list names them")),
                },
            }
        }
        if args.targets.is_empty() {
            args.targets.extend(ALL);
        }
        Ok(Ask::Run(args))
    }
}
