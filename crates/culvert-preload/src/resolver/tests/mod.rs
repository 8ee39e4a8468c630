mod against_kernel;
mod fake;
mod rules;
mod speed;
mod text;
