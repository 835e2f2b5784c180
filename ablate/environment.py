from ablate.record.environment import environment
