"""Learning from a message broker: a served model reads a stream and learns every valid message exactly once.

    consumption   the position of a stream and its messages as blocks to learn; independent of the broker
    nats_stream   streams of NATS JetStream, with the extra `nats`
"""
