#!/bin/sh
# Prolog and Epilog of Slurm: tag the EC2 node with the job that runs on it, for trnbot to read.
#
# In slurm.conf: Prolog and Epilog = /opt/trnbot/slurm-prolog.sh, and PrologFlags=Alloc.
# The node's role needs ec2:CreateTags and ec2:DeleteTags for itself. A node that several jobs share
# has the tag of the newest. It never fails a job: Slurm drains a node whose prolog fails.
set -u
PATH=${PATH:-}:/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin  # Slurm sets none
export PATH

imds=${IMDS:-http://169.254.169.254/latest}
token=$(curl -sfm 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$imds/api/token") || exit 0
about() { curl -sfm 2 -H "X-aws-ec2-metadata-token: $token" "$imds/meta-data/$1"; }
instance=$(about instance-id) && region=$(about placement/region) || exit 0

# A prolog on a node is told the number of its job, and not by every version the name.
name=${SLURM_JOB_NAME:-$(scontrol show job "$SLURM_JOB_ID" -o | sed -n 's/.* JobName=\([^ ]*\).*/\1/p')}

case ${SLURM_SCRIPT_CONTEXT:-} in
  epilog*) aws ec2 delete-tags --region "$region" --resources "$instance" --tags "Key=job,Value=$name" ;;
  *) aws ec2 create-tags --region "$region" --resources "$instance" --tags "Key=job,Value=$name" ;;
esac
exit 0
