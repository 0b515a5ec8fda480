/// A script, known to the server by the digest that it gave us for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Swap,
    Get,
    Mark,
    PutBody,
}

impl Script {
    pub(crate) const ALL: [Self; 4] = [Self::Swap, Self::Get, Self::Mark, Self::PutBody];

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Swap => include_str!("lua/swap.lua"),
            Self::Get => include_str!("lua/get.lua"),
            Self::Mark => include_str!("lua/mark.lua"),
            Self::PutBody => include_str!("lua/put_body.lua"),
        }
    }

    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Swap => 0,
            Self::Get => 1,
            Self::Mark => 2,
            Self::PutBody => 3,
        }
    }
}
