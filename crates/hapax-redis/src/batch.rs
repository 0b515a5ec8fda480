use redis::Cmd;

/// Commands that are sent together, without any promise between them, each to wherever its bucket lies. Those of one bucket
/// are carried out in their order.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<(usize, Cmd)>,
}

impl Batch {
    pub(crate) fn add(&mut self, bucket: usize, name: &str) -> &mut Cmd {
        let at = self.commands.len();
        self.commands.push((bucket, redis::cmd(name)));
        &mut self.commands[at].1
    }
}
