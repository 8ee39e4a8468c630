//! Blocking calls inside hooks.
