//! Sockets and FIFOs with names in a mount.

use culvert_e2e::on_each_driver;

on_each_driver! {
    sockets_and_fifos_connect_processes |case| {
        let program = case.program("sockets.py");
        case.good(&format!("exec python3 {program}"));
    };
}
