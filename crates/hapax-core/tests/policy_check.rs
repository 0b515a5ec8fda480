//! What a policy may not say.

use hapax_core::{Preset, policy::OnFull};

/// A knob that is checked nowhere refuses every request, long after its policy was taken.
#[test]
fn a_policy_without_room_for_tombstones_is_refused() {
    for on_full in [OnFull::RejectNew, OnFull::EvictOldestFinal] {
        let mut policy = Preset::Standard.policy();
        policy.capacity.on_full = on_full;
        policy.capacity.max_tombstones = 0;
        let refused = policy.check().unwrap_err().to_string();
        assert!(refused.contains("capacity.max_tombstones: 0 would refuse everything"), "{refused}");
        policy.capacity.max_tombstones = 1;
        assert!(policy.check().is_ok());
    }
}
