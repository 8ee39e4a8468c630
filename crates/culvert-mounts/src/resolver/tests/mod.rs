mod against_kernel;
mod calls;
mod fake;
mod random;
mod rules;
mod speed;
mod text;
mod world;
