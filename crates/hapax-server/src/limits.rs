use std::time::Duration;

/// Bounds on what clients can make the process hold. Every one of them has an answer that says so.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections per listener; one more is told to come back later, and closed.
    pub connections: usize,
    /// Of these, from one address: nobody can take all of them.
    pub connections_per_peer: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of all bodies in flight; one tenant may have half of them.
    pub bodies: usize,
    /// Bytes of a request's line and headers.
    pub head: usize,
    /// Nesting of a request's JSON.
    pub json_depth: usize,
    /// Readers of `/v1/events`, in all and of one tenant.
    pub readers: usize,
    pub readers_per_tenant: usize,
    /// How long one reader stays before it is asked to come back, where it left off.
    pub reader_time: Duration,
    /// Begins of one tenant that are under way, waiting ones among them. Beyond it nobody waits any more.
    pub begins_per_tenant: usize,
    /// Calls of one tenant that wait for tasks or results. One more is told to come back.
    pub queue_waiters_per_tenant: usize,
    /// The longest page of a list.
    pub page: usize,
    /// Records that one page of a list looks at.
    pub looked_at: usize,
    /// Tickets held for fast completion.
    pub tickets: usize,
    /// How long a request's head, its body, and each piece of an answer may take.
    pub head_time: Duration,
    pub body_time: Duration,
    pub write_time: Duration,
}

/// The longest page unless it is set otherwise; the API's document names it.
pub(crate) const PAGE: usize = 200;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_peer: 12_288,
            body: 2 * 1024 * 1024,
            bodies: 256 * 1024 * 1024,
            head: 32 * 1024,
            json_depth: 64,
            readers: 1_024,
            readers_per_tenant: 256,
            reader_time: Duration::from_secs(3_600),
            begins_per_tenant: 4_096,
            queue_waiters_per_tenant: 1_024,
            page: PAGE,
            looked_at: 2_000,
            tickets: 262_144,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
        }
    }
}
