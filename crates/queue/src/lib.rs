//! Hands work to other machines over NATS JetStream.
