//! Debian's Chromium and Firefox with their sandboxes, as an ordinary user: a page looks as
//! natively.

use culvert_e2e::{Case, Driver, User, installed, world};
use std::time::Duration;

/// Nothing that is drawn when there is time, as pictures are.
const PAGE: &str = "<!doctype html><html><head><link rel=stylesheet \
    href=style.css></head><body><div id=x></div><h1>hello</h1><script \
    src=script.js></script></body></html>";
const STYLE: &str = "body { background: #123456; margin: 0 } #x { width: 100px; height: 100px; \
    background: #fe0 } h1 { color: #fff }";
const SCRIPT: &str = "document.getElementById('x').style.background = '#0f0'";

/// `$D` of the script is where the page is, `$F` where the profile is.
fn looks_the_same(browser: &str, name: &str, driver: Driver, page: &str, profile: &str) {
    if !installed(browser) {
        return;
    }
    // A browser of root's has no sandbox.
    let user = match world().is_root() {
        true => User::Nobody,
        false => User::Me,
    };
    let case = Case::new(&format!("{browser}-{name}-{driver:?}"), user)
        .directory(driver)
        .limit(Duration::from_secs(240));
    // Nothing that would look for a network.
    let run = match browser {
        "chromium" => {
            script!("browsers/chromium.sh")
        }
        _ => {
            script!("browsers/looks_the_same.sh")
        }
    };
    // Both leave locks and sockets in their profile; what is in it differs from run to run.
    let script = script!("browsers/looks_the_same-2.sh", page, profile, run);
    let case = case
        .variable("PAGE", PAGE)
        .variable("STYLE", STYLE)
        .variable("SCRIPT", SCRIPT);
    let done = case.good(&script);
    assert!(done.text().ends_with("a profile\n"), "{}", done.report());
}

macro_rules! browsers {
    ($($name:ident $browser:literal [$($pages:ident),*];)*) => { $(
        mod $name {
            use super::{Driver, looks_the_same};
            /// Where its pages lie.
            const PAGES: &[Driver] = &[$(Driver::$pages),*];
            #[test]
            fn beside_a_mount() { looks_the_same($browser, "beside", Driver::Passthrough, "$W", "$W"); }
            #[test]
            fn page_on_a_mount() {
                for driver in PAGES {
                    looks_the_same($browser, "page", *driver, "$M", "$W");
                }
            }
            #[test]
            fn profile_on_a_mount() {
                for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
                    looks_the_same($browser, "profile", driver, "$W", "$M");
                }
            }
        }
    )* };
}

browsers! {
    chromium "chromium" [Passthrough, Driven, Memory];
    firefox "firefox-esr" [Passthrough, Driven, Memory];
}
