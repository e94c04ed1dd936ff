"""What the learn job is made of: owners of samples partitions, rounds, and the transport below Faust."""
