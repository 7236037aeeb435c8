"""Read the lines of Neuron's compiler in logs, recorded or polled."""
