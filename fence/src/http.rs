//! HTTP services: a `tower` layer that reads the header `Fencing-Token` and refuses old holders, and what a client needs to send it.
//!
//! A request with a token reaches the service only if no request with a higher one has been admitted for the same resource, also before a
//! restart; and only once the requests of older holders that were let in before have left ([`FenceLayer`]). The limits: the order holds
//! for what passes through **one process** (replicas need the fence where their common data is, see `tenure_fence::postgres`); what the
//! service goes on doing in the background after its answer is not waited for; and requests without a token are only refused if they
//! change something: a reader that is going to write must send its token with the read.
//!
//! | answer | when |
//! |---|---|
//! | 400 | the token is no number, does not fit into 64 bits, or came more than once |
//! | 412 | a newer holder has been there; its token is in the header `Fencing-Token` |
//! | 428 | a method that may change something, without a token |
//! | 503 | the mark cannot be stored now; nothing was done |

pub use self::{
    header::{FENCING_TOKEN, FencedRequest, Malformed, token, winner},
    layer::{FenceLayer, FenceService},
    marks::{Marks, MemoryMarks},
    sqlite::SqliteMarks,
};

mod gate;
mod header;
mod layer;
mod marks;
mod sqlite;
