"""The OpenAI surface: requests in, routed, forwarded to the agent that was chosen, answers passed back as they come."""
