"""Kill whatever can die under running jobs, and see whether each ends as its user asked.

python -m benchmarks.chaos [--rounds 100] [--seed 1] [--json]

processes  what runs on this machine
system     Postgres, Valkey, API, two workers and janitor, each a process that can be killed alone
proxy      the line to a server, which can be cut, delayed and half closed
quota      a folder for artifacts whose size is a limit
settings   how patient the service is
targets    whom a fault hits
faults     what is done to them, by a seeded schedule
jobs       small jobs of every objective, and what their user wishes: the end, a pause, a cancel
reference  the same jobs, undisturbed: weights and metrics after every step
client     one request, one answer
customer   asks for jobs, pauses, resumes and cancels, as often as it takes to get an answer
witness    asks for their status all the time, and notes every lie
verdict    what became of them
rounds     one round, from the first wish to the verdict
"""
