/// A 16-byte digest under which stores count and order records without knowing what it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tag(pub [u8; 16]);
