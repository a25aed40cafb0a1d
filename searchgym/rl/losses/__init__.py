"""What is minimised, one file per loss. Pure functions: ``(loss, statistics)``.

Log-probabilities, masks and old log-probabilities are (B, T); advantages (B,) or (B, T). Each loss
is one number (``kernels.aggregate``); the statistics are plain numbers for the logs. ``aggregate``
says what the sum is divided by, its default is the method's own; ``norm``, ``tokens`` and
``sequences`` are handed on to ``aggregate_tokens``. Losses add up with coefficients: policy +
β · KL - and so on.

====================  ============  ==============================================================
loss                  file          per token
====================  ============  ==============================================================
REINFORCE             reinforce     -A log π
PPO, GRPO, DAPO       ppo           clipped surrogate, optionally with dual clip
decoupled PPO         decoupled     the same, weighted: sampled by older weights; M2PO's choice
GSPO, turn ratios     gspo          the same with one ratio per sequence or turn
CISPO                 cispo         -A · clipped ratio · log π: no token stops learning
SAPO                  sapo          a soft gate on the ratio instead of a clip
TIS, TOPR             truncated     -A · min(ratio, 1) · log π
Kimi k1.5             kimi          squared distance to the optimal policy's log-ratio
OPMD                  opmd          -A log π / (1 + τ)
DPO                   dpo           better and worse trajectories in pairs
SFT, RAFT             sft           -log π, of all or of the rewarded
KL                    kl            to a reference policy
entropy               entropy       -H, to be added with a small coefficient
value                 value         clipped squared error of a critic
====================  ============  ==============================================================
"""
