culvert: warning: @what@ does not see the mounts: it has file capabilities, so that the dynamic loader loads no library of ours
