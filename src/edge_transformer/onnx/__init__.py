"""Models as ONNX files, which answer without PyTorch."""
