"""Scenarios: YAML files that are run step by step, every expectation compared, under any dialect of their machines.

`replay` runs a file, `printing` tells how it went, `pictures` draws it; `kinds` holds a module for each kind of
scenario, found by what a document holds. A conversation leads one member (`consumer_side`, `classic_side`), requests
go to a coordinator (`broker`), a migration is told as the document and as Kafka tell it (`migration`), rounds of
Connect go through its assignor (`connect_rounds`), and stimuli lead a whole cluster of its workers (`connect_stimuli`,
`connect_story`). `dialects` lists what all of them can be run under.
"""
