mod against_kernel;
mod fake;
mod random;
mod rules;
mod speed;
mod text;
mod world;
