"""Small models, to be read and copied: what one writes to have a protocol of one's own checked."""
