"""The paper's competitors behind the interface of the Edge Transformer. `nn.encoder` knows them by name."""
