use redis::Cmd;

use crate::script::Script;

/// One run of a script.
pub(crate) struct Invocation<'a> {
    pub(crate) script: Script,
    pub(crate) keys: &'a [&'a [u8]],
    /// A key that is never there, for a script that touches more keys than it names: it keeps a cluster from running the
    /// script while the slot is half moved.
    pub(crate) guard: Option<&'a [u8]>,
    pub(crate) args: &'a (dyn Fn(&mut Cmd) + Sync),
}

impl Invocation<'_> {
    /// Behind `EVALSHA` and the digest, or `EVAL` and the script itself.
    pub(crate) fn fill(&self, command: &mut Cmd, in_cluster: bool) {
        let guard = self.guard.filter(|_| in_cluster);
        command.arg(self.keys.len() + usize::from(guard.is_some()));
        for key in self.keys {
            command.arg(*key);
        }
        if let Some(guard) = guard {
            command.arg(guard);
        }
        (self.args)(command);
    }

    /// With the whole script, for a server that may not know it.
    pub(crate) fn in_full(&self, in_cluster: bool) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.text());
        self.fill(&mut command, in_cluster);
        command
    }
}
