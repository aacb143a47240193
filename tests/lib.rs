//! What the tests of this folder share.
