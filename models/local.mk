# SPDX-License-Identifier: MIT
tinydir = $(pkgdatadir)/tiny
dist_tiny_DATA = models/tiny/tiny-qwen35-q4_0.gguf models/tiny/tiny-qwen35-q8_0.gguf \
	models/tiny/tiny-qwen35-dflash-q8_0.gguf models/tiny/README.md models/tiny/LICENSE \
	models/tiny/SHA256SUMS
