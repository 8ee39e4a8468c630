//! What a walk asks of a driver, and gives back.

use super::fake::ROOT;
use super::rules::{HOST, TREE, check};
use super::world::World;
use crate::resolver::{Inside, Last, LastStep, Resolved, Restrictions};
use LastStep::{Create, Follow, NoFollow, Parent};
use culvert::Caller;

#[test]
fn drivers_may_walk_as_far_as_they_like() {
    for walking in 0..3 {
        let mounts = [("/m", "a/b/c/d a/l>b/c a/f")];
        let world = World::walking("m/", &mounts, walking);
        check(
            &world,
            &[
                ("/", "/m/a/b/c/d", Follow, 0, "0:a/b/c/d"),
                ("/", "/m/a/l/d", Follow, 0, "0:a/b/c/d"),
                ("/", "/m/a/l/new", Create, 0, "0:a/b/c+new"),
                ("/", "/m/a/b/no/x", Create, 0, "ENOENT"),
                ("/", "/m/a/f/x", Follow, 0, "ENOTDIR"),
                ("/", "/m/a/f/x/y", Follow, 0, "ENOTDIR"),
            ],
        );
    }
}

#[test]
fn one_call_walks_a_run_of_names() {
    let world = World::new("m/", &[("/m", "a/b/c/d")]);
    check(&world, &[("/", "/m/a/b/c/d", Follow, 0, "0:a/b/c/d")]);
    let calls = &world.trees[0].calls;
    assert_eq!(calls.load(core::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn the_answer_keeps_its_references_and_gives_them_back() {
    let user = Caller { uid: 5, ..ROOT };
    for caller in [&ROOT, &user] {
        for walking in 0..3 {
            let world = World::walking(HOST, &[("/mnt/fs", TREE)], walking);
            for path in [
                "d/e/g", "d/dir/g", "d/up", "d/abs", "d/here/f", "d/e/no", "f/x/y", "d/out", "d/f/",
            ] {
                for step in [Follow, NoFollow, Create, Parent] {
                    let plain = Restrictions(0);
                    let base = world.place("/mnt/fs");
                    let found =
                        world
                            .table
                            .walk(&world.host, caller, &base, path.as_bytes(), step, plain);
                    if let Ok(Resolved::Inside(Inside {
                        last: Last::Name(_),
                        entry: Some(entry),
                        ..
                    })) = &found
                    {
                        let held = world.trees[0].references.lock().unwrap();
                        assert!(held[&entry.attributes.node.0] > 0, "{path} {step:?}");
                    }
                    drop(found);
                }
            }
            let held = world.trees[0].references.lock().unwrap();
            assert!(held.values().all(|&count| count == 0), "{walking} {held:?}");
        }
    }
}
