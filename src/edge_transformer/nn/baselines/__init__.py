"""The paper's competitors behind the interface of the Edge Transformer. `nn.registry` knows them by name."""
