"""What runs a member: its two queues, the application's calls, the background loop, threads and asyncio."""
