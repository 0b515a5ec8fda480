//! Whose credentials are that were seen lately.
//!
//! A client shows the same credential with each request, and each time a digest of it would have to be made. What it was found to stand for is kept
//! under the credential itself: whatever differs in a single byte is another one, and is digested.

use std::{fmt, hash::BuildHasher as _};

use foldhash::quality::RandomState;
use hapax_core::identity::Tenant;
use parking_lot::Mutex;

/// What a client proves itself with: kinds and values, each of them with its place.
pub(super) type Shown<'a> = [(&'a [u8], &'a [u8])];

/// So many are kept, at most; which one has to go is decided by chance.
const PLACES: usize = 1_024;
/// What takes more is not kept, so all of them together have a bound.
const LONGEST: usize = 2_048;

pub(super) struct Seen {
    places: Box<[Mutex<Option<Known>>]>,
    hasher: RandomState,
}

type Kept = (Box<[u8]>, Box<[u8]>);

struct Known {
    /// Of this process's own making. Compared first, as nearly all who are another are told apart by it, and not byte by byte.
    hash: u64,
    kind: &'static str,
    shown: Box<[Kept]>,
    tenant: Tenant,
}

impl Known {
    fn is(&self, hash: u64, kind: &str, shown: &Shown<'_>) -> bool {
        let all = self.shown.iter().map(|(place, value)| (&**place, &**value));
        self.hash == hash && self.kind == kind && all.eq(shown.iter().copied())
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::with_places(PLACES)
    }
}

impl Seen {
    fn with_places(places: usize) -> Self {
        Self { places: (0..places).map(|_| Mutex::default()).collect(), hasher: RandomState::default() }
    }

    /// `named` finds out who it is, if that is not known.
    pub(super) fn tenant<E>(
        &self,
        kind: &'static str,
        shown: &Shown<'_>,
        named: impl FnOnce() -> Result<Tenant, E>,
    ) -> Result<Tenant, E> {
        let length: usize = shown.iter().map(|(place, value)| size_of::<Kept>() + place.len() + value.len()).sum();
        let hash = self.hasher.hash_one(shown);
        let at = hash as usize % self.places.len();
        // Nobody waits: it is found out as quickly.
        let Some(mut place) = self.places[at].try_lock().filter(|_| length <= LONGEST) else { return named() };
        if let Some(known) = place.as_ref().filter(|known| known.is(hash, kind, shown)) {
            return Ok(known.tenant.clone());
        }
        let tenant = named()?;
        let shown = shown.iter().map(|(place, value)| (Box::from(*place), Box::from(*value))).collect();
        *place = Some(Known { hash, kind, shown, tenant: tenant.clone() });
        Ok(tenant)
    }
}

/// Nothing of what was shown.
impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: &str, shown: &Shown<'_>) -> Result<Tenant, ()> {
        let mut name = kind.to_owned();
        for (place, value) in shown {
            name += &format!("{}:{:?}{}:{:?}", place.len(), place, value.len(), value);
        }
        Tenant::new(&name).map_err(drop)
    }

    /// All of them meet in one place, and whatever is there was another's a moment ago.
    #[test]
    fn who_comes_after_another_is_not_taken_for_that_one() {
        let seen = Seen::with_places(1);
        let all: [(&str, &Shown<'_>); 9] = [
            ("credential-", &[(b"authorization", b"Bearer a")]),
            ("credential-", &[(b"authorization", b"Bearer b")]),
            ("credential-", &[(b"authorization", b"Bearer ")]),
            ("credential-", &[(b"authorization", b"Bearer aa")]),
            ("credential-", &[(b"x-api-key", b"Bearer a")]),
            ("credential-", &[(b"authorization", b"Bearer a"), (b"x-api-key", b"k")]),
            ("credential-", &[(b"x-api-key", b"k"), (b"authorization", b"Bearer a")]),
            ("credential-", &[(b"authorizationB", b"earer a")]),
            ("cookies-", &[(b"authorization", b"Bearer a")]),
        ];
        for one in &all {
            for other in &all {
                for (kind, shown) in [one, other, one, one] {
                    assert_eq!(seen.tenant(kind, shown, || said(kind, shown)), said(kind, shown));
                }
            }
        }
    }

    /// Whether it had to be found out.
    fn asked(seen: &Seen, shown: &Shown<'_>) -> bool {
        let mut asked = false;
        let named = || {
            asked = true;
            Tenant::new("somebody").map_err(drop)
        };
        seen.tenant("credential-", shown, named).unwrap();
        asked
    }

    #[test]
    fn who_is_known_is_not_asked_again_unless_another_came() {
        let seen = Seen::with_places(1);
        let (a, b): (&Shown<'_>, &Shown<'_>) = (&[(b"x-api-key", b"a")], &[(b"x-api-key", b"b")]);
        assert_eq!([a, a, b, b, a].map(|shown| asked(&seen, shown)), [true, false, true, false, true]);
        // A refusal is nobody's name.
        let nobody: &Shown<'_> = &[(b"x-api-key", b"nobody")];
        assert!(seen.tenant("credential-", nobody, || Err(())).is_err());
        assert!(asked(&seen, nobody));
    }

    /// A cookie of nothing but `=` has thousands of parts, and none of them a byte.
    #[test]
    fn who_shows_much_is_not_kept() {
        let seen = Seen::with_places(1);
        let long = [b'l'; LONGEST];
        let room = LONGEST - size_of::<Kept>() - 1;
        let twice = |shown: &Shown<'_>| [asked(&seen, shown), asked(&seen, shown)];
        assert_eq!(twice(&[(b"x", &long[..room])]), [true, false]);
        assert_eq!(twice(&[(b"x", &long[..=room])]), [true, true]);
        let nothings = vec![(&b""[..], &b""[..]); LONGEST / size_of::<Kept>() + 1];
        assert_eq!(twice(&nothings[1..]), [true, false]);
        assert_eq!(twice(&nothings), [true, true]);
    }

    #[test]
    fn no_credential_is_shown_to_whoever_debugs() {
        let seen = Seen::default();
        let shown: &Shown<'_> = &[(b"x-api-key", b"sk_live_1")];
        seen.tenant("credential-", shown, || said("credential-", shown)).unwrap();
        assert!(!format!("{seen:?}").contains("sk_live"));
    }
}
