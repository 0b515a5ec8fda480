/// A script, known to the server by the digest that it gave us for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Swap,
    Settle,
    Get,
    Mark,
    PutBody,
    Upgrade,
}

impl Script {
    pub(crate) const ALL: [Self; 6] = [Self::Swap, Self::Settle, Self::Get, Self::Mark, Self::PutBody, Self::Upgrade];

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Swap => concat!(include_str!("lua/settle.part.lua"), include_str!("lua/swap.lua")),
            Self::Settle => concat!(include_str!("lua/settle.part.lua"), include_str!("lua/settle.lua")),
            Self::Get => include_str!("lua/get.lua"),
            Self::Mark => include_str!("lua/mark.lua"),
            Self::PutBody => include_str!("lua/put_body.lua"),
            Self::Upgrade => include_str!("lua/upgrade.lua"),
        }
    }

    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Swap => 0,
            Self::Settle => 1,
            Self::Get => 2,
            Self::Mark => 3,
            Self::PutBody => 4,
            Self::Upgrade => 5,
        }
    }
}
