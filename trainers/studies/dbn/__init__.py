"""Deep Belief Networks on MNIST: pre-trained with WCD, fine-tuned, compared with others, and asked for digits."""
