//! Sockets and FIFOs with names in a mount.

use culvert_e2e::on_each_driver;

on_each_driver! {
    named_sockets_and_fifos |case| {
        let program = case.program("sockets.py");
        case.good(&format!("exec python3 {program}"));
    };
}
