use std::{fmt, fs, io, path::Path};

use ring::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};

use super::row::Hash;

/// Signs checkpoints. Its key lies beside the log, readable by its owner only.
pub struct Signer(Ed25519KeyPair);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
    }
}

impl Signer {
    /// Reads the key in this file, or makes one.
    pub fn open(path: &Path) -> io::Result<Self> {
        let unusable = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                    .map_err(|_| io::Error::other("the machine has no randomness to give"))?;
                write_private(path, made.as_ref())?;
                made.as_ref().to_vec()
            }
            Err(error) => return Err(error),
        };
        let pair = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| unusable("it is not an Ed25519 key in PKCS#8"))?;
        Ok(Self(pair))
    }

    #[must_use]
    pub fn public(&self) -> Vec<u8> {
        self.0.public_key().as_ref().to_vec()
    }

    pub(super) fn sign(&self, chain: &str, n: u64, prev: &Hash) -> Vec<u8> {
        self.0.sign(&statement(chain, n, prev)).as_ref().to_vec()
    }
}

/// What a checkpoint says: this chain has this hash at this row.
fn statement(chain: &str, n: u64, prev: &Hash) -> Vec<u8> {
    let mut bytes = b"hapax.audit.checkpoint.v1\0".to_vec();
    bytes.extend_from_slice(&(chain.len() as u64).to_be_bytes());
    bytes.extend_from_slice(chain.as_bytes());
    bytes.extend_from_slice(&n.to_be_bytes());
    bytes.extend_from_slice(prev);
    bytes
}

pub(super) fn is_signed(public: &[u8], signature: &[u8], chain: &str, n: u64, prev: &Hash) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(&statement(chain, n, prev), signature).is_ok()
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    // Written beside and moved, so that a crash leaves no half of a key.
    let beside = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) => fs::File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
