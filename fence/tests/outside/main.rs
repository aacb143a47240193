//! Fences at real resources: what each promises, and two things that all have to stand: a holder that was paused, and eight workers.

mod crew;
mod docs;
mod file;
mod http;
mod lock;
mod objects;
mod paused;
mod postgres;
mod resource;
mod tokens;
