//! Collectives: message sizes, data types, operations, cases.
