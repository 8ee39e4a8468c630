//! Processors that are not the machine's own.

/// Whether the program is run by Valgrind, which translates its instructions and makes its system
/// calls itself: what is rewritten in memory counts little there, and the GS base cannot be used.
pub fn by_valgrind() -> bool {
    // VALGRIND_DO_CLIENT_REQUEST with VG_USERREQ__RUNNING_ON_VALGRIND (valgrind.h): these rotations
    // leave the register as it was, and nothing but Valgrind takes them for a question.
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    let question = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let mut depth = 0usize;
    // SAFETY: natively nothing is changed but flags; Valgrind reads the question and writes the
    // answer to rdx.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") question.as_ptr(),
            inout("rdx") depth,
            inout("rdi") 0usize => _,
        );
    }
    depth != 0
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_real_processor_does_not_answer() {
        assert!(!super::by_valgrind());
    }
}
