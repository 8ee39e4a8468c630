//! Who has an upper layer.

use crate::tools::Scratch;
use culvert::Errno;
use std::fs;

#[test]
fn an_upper_layer_is_one_runs_as_long_as_it_lives() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.0.join("other")).unwrap();
    let lock = fs::File::create(scratch.0.join("run/lock")).unwrap();
    lock.lock_shared().unwrap();
    let prepare = |run| scratch.prepare_for(run, "upper", &["a"], &[]);
    let left = scratch.0.join("work/work/#left");
    prepare("run").unwrap();
    fs::write(&left, "").unwrap();
    let refused = prepare("other").unwrap_err();
    assert_eq!(refused.errno(), Errno::EBUSY, "{refused}");
    assert!(refused.to_string().contains("/run"), "{refused}");
    // What the first one is making is not thrown away.
    assert!(left.exists());
    // Who writes nothing does not disturb.
    scratch.prepare_for("other", "", &["a"], &[]).unwrap();
    drop(lock);
    prepare("other").unwrap();
    assert!(!left.exists());
}
