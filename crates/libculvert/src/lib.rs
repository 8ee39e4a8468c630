//! `libculvert.so`: loaded by ld.so as an auditor before the program's own libraries. Freestanding: no libc, no thread-local storage.
#![no_std]
