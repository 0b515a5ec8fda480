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

#[test]
fn a_policy_without_room_for_any_bytes_is_refused() {
    let mut policy = Preset::Standard.policy();
    assert_eq!(policy.capacity.bytes_per_tenant, None, "no preset limits them");
    policy.capacity.bytes_per_tenant = Some(0);
    let refused = policy.check().unwrap_err().to_string();
    assert!(refused.contains("capacity.bytes_per_tenant: 0 would refuse everything; leave it out"), "{refused}");
    policy.capacity.bytes_per_tenant = Some(1);
    assert!(policy.check().is_ok());
}
