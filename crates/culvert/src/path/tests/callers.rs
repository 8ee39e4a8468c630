//! Who calls the methods of a path driver: the adapter, in an operation that a front end asks it
//! for.

use std::string::String;

/// What no file of the adapter calls does not belong to the contract.
#[test]
fn each_method_of_a_path_driver_has_its_caller() {
    let callers = [
        include_str!("../adapter.rs"),
        include_str!("../changes.rs"),
        include_str!("../file.rs"),
        include_str!("../state.rs"),
    ];
    // Whoever loads a library asks for it (`culvert-drivers/src/object/`).
    let others = ["tree"];
    let callers: String = callers.concat().split_whitespace().collect();
    let source = include_str!("../mod.rs");
    let body = source.split_once("pub trait PathFileSystem: ");
    let body = body.and_then(|(_, rest)| rest.split_once("\n}\n"));
    let (body, _) = body.expect("the trait is there");
    let methods = body.lines().filter_map(|line| line.strip_prefix("    fn "));
    let mut count = 0;
    for method in methods {
        let name = method.split(['(', '<']).next().unwrap_or(method);
        let called = std::format!("driver.{name}(");
        assert!(
            others.contains(&name) || callers.contains(&called),
            "nobody calls {name}"
        );
        count += 1;
    }
    // DEFUSE's 25 functions, of which six are `set_attributes` and two others are no methods, and
    // more.
    assert!(count > 25, "{count} methods");
}
