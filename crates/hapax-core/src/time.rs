//! Time as the rules see it: a number that the store hands out.
//!
//! A record holds durations and says which write they count from. A write cannot know its own stamp, so a window that
//! starts with the write that stores it is written as [`Anchor::Write`] and becomes [`Anchor::At`] when it is read.

use std::fmt;

/// A duration in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Millis(pub u64);

impl Millis {
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    #[must_use]
    pub const fn from_mins(mins: u64) -> Self {
        Self::from_secs(mins.saturating_mul(60))
    }

    #[must_use]
    pub const fn from_hours(hours: u64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }

    #[must_use]
    pub const fn from_days(days: u64) -> Self {
        Self::from_hours(days.saturating_mul(24))
    }

    #[must_use]
    pub const fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }

    /// Rounds up, so that a window never comes out shorter than it was asked for.
    #[must_use]
    pub fn from_std(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            ms if ms % 86_400_000 == 0 => write!(f, "{}d", ms / 86_400_000),
            ms if ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(f, "{}m", ms / 60_000),
            ms if ms % 1_000 == 0 => write!(f, "{}s", ms / 1_000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// A moment on the store's clock, in milliseconds. It serves windows only and means nothing to people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    #[must_use]
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// Wall time in milliseconds since 1970: what people read. No rule ever looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct WallMillis(pub u64);

/// As people write it, in UTC.
impl fmt::Display for WallMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, of_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1_000)
    }
}

/// The Gregorian date of a day since 1970, counted in years that begin in March, so that leap days come last.
const fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, over) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + over, month, day)
}

/// How long something is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Span {
    For(Millis),
    Forever,
}

impl Span {
    /// The moment at which a window from `from` ends, if it ends.
    #[must_use]
    pub const fn end(self, from: Stamp) -> Option<Stamp> {
        match self {
            Self::For(length) => Some(from.plus(length)),
            Self::Forever => None,
        }
    }

    #[must_use]
    pub const fn then(self, more: Self) -> Self {
        match (self, more) {
            (Self::For(first), Self::For(second)) => Self::For(Millis(first.0.saturating_add(second.0))),
            (Self::Forever, Self::For(_) | Self::Forever) | (Self::For(_), Self::Forever) => Self::Forever,
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(length) => length.fmt(f),
            Self::Forever => f.write_str("forever"),
        }
    }
}

/// The moment from which a window counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Anchor {
    /// The stamp of the write that stores this record.
    Write,
    At(Stamp),
}

impl Anchor {
    #[must_use]
    pub const fn resolve(self, stamp: Stamp) -> Stamp {
        match self {
            Self::Write => stamp,
            Self::At(at) => at,
        }
    }

    /// The same moment, said so that a later write does not move it.
    #[must_use]
    pub const fn settled(self, stamp: Stamp) -> Self {
        Self::At(self.resolve(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_reads_as_the_calendar_says() {
        let shown = |millis| WallMillis(millis).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(shown(1_735_689_599_999), "2024-12-31T23:59:59.999Z");
    }
}
