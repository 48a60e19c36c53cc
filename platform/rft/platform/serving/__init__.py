"""`/v1/chat/completions`: models answer from processes of their own, which are started when somebody asks."""
