"""How rewards become advantages, one file per method. Pure functions, detached results.

Rewards are (B,), one per trajectory, with ``group`` (B,) naming each one's task; or (B, T), one per
token, under a mask (see ``kernels``). Advantages have the shape of the rewards unless said
otherwise; ``kernels.mask.spread`` makes (B, T) of (B,). A reward of NaN cannot be scored: the
trajectory is left out and gets 0, as does a group of one or of equal rewards.

================================  ==================  ==========================================
method                            file                advantage
================================  ==================  ==========================================
REINFORCE                         reinforce           R - b, or the reward to go
REINFORCE++, its baseline form    reinforce_pp        whitened over the batch
RLOO                              rloo                R - mean of the others
OPO                               opo                 R - mean weighted by length
ReMax                             remax               R - reward of the greedy answer
GRPO, Dr.GRPO, on steps (IGPO)    grpo                (R - mean) / std, or R - mean
GPG                               gpg                 R - mean, scaled by the share that scored
Stratified GRPO                   stratified          GRPO, also among equal search counts
GiGPO                             gigpo               of episodes, and of steps from equal states
GRPO-passk                        passk               the best one's lead, for the best one alone
OPMD                              opmd                R - soft maximum
OTB                               otb                 reward to go - baseline of each token place
PPO: tokens, turns, bi-level      ppo                 GAE, whitened
on-policy distillation            distillation        minus KL to a teacher, per token
all actions known (ours)          enumerated          exact, without sampling noise
================================  ==================  ==========================================
"""
