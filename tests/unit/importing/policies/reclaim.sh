#!/bin/sh
# Reclaims what one program does not use: nothing that moves between nodes.
damo start --ops vaddr --target_pid 4711 --damos_action pageout --damos_age 30s max
